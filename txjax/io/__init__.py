"""Files that are written durably, digests of folders, and what disks can do."""
