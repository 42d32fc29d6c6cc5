"""mistral"""
