// From a folder (file://) a browser fetches no other page: the search then lists titles, without lines of their text.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
