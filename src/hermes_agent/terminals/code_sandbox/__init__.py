"""code_sandbox"""
