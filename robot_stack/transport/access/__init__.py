"""Who may speak on the link, and how much: tokens, certificates, sessions, bounds."""
