"""The labels of points on an image (`point_labels` of a batch)."""

IGNORED = -100  # a place for a later point: nothing attends to it
NO_POINT = -1  # padding, and where there is neither a click nor a box
OFF = 0  # a click off an object
ON = 1  # a click on it
CORNERS = 2, 3  # the upper left and the lower right corner of its box
