"""Code that several commands share: the flag parser, loading a run from its workdir, resume trials."""
