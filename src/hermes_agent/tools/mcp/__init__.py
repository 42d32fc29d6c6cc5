"""Tools, resources and prompts of servers that speak the Model Context Protocol."""
