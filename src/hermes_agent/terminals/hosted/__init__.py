"""hosted"""
