"""Text for readers: tables that fit a terminal, HTML pages, and text made inert for every target."""
