"""Who may use a store through a server: tenants, keys, invitations, sessions."""
