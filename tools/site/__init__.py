"""Makes the site of docs/: pages, pictures, and references that are made from the code."""
