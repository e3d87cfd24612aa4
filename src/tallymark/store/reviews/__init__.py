"""What people say of cases: their own scores and comments."""
