"""What commands ask for, whoever answers: the services here, or a server."""
