"""Durable writes of files, digests of folders, and errors of disks."""
