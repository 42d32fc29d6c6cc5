"""injection_scan"""
