"""What checks every call of the package against its signature: shapes too, by jaxtyping."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float
