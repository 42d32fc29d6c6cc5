"""incidents"""
