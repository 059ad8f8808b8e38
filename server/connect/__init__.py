"""How assistants are told of this server: what each client's configuration looks like, and entries in their files."""
