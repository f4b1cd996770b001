"""Read, process, write: applications of every client that are killed, and judges that know nothing of the product."""
