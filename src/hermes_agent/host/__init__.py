"""What a runtime offers to its domains: context, home, terminals under policy, messages out."""
