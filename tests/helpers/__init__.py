"""What tests share: runs of commands, small models, data sets and arrays, the cache of programs, budgets, scores."""
