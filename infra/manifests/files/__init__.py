"""Files for people and hosts: imports of existing pools, layouts of hosts."""
