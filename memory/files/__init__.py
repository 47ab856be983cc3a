"""Files as value types: identity, path rules and markdown. Pure: no Django, no index, no service."""
