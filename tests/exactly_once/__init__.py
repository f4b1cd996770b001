"""Applications of every client read, process and write while they are killed. The judges know nothing of the
product.
"""
