"""What every door does, one file per service, and `App`,
where settings become store and services.
"""
