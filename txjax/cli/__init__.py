"""What several commands share: the parser, a run loaded from its workdir, trials of resuming."""
