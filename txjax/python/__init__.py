"""txjax from Python: the functions and the class that `import txjax` offers. Each is a command's, without its flags."""
