"""Processes that run code of methods: started under watch, and ended with everything they started."""
