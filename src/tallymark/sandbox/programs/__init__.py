"""How `run_program` runs one: its view, the launcher inside, the talk with it, what it leaves."""
