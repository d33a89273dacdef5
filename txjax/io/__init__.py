"""Durable writes of files, digests of folders, errors of disks, and requests to object stores."""
