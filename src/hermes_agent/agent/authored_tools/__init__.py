"""authored_tools"""
