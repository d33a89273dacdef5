"""The documentation as a site: `pip install -e '.[docs]' && sphinx-build -W -b html docs build/site`.

Notebooks are shown as they lie; `-D nb_execution_mode=force` executes them. Nothing is loaded from another host.
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "extensions")]

import txjax  # noqa: E402

project = "txjax"
release = txjax.__version__
extensions = ["myst_nb", "sphinx_llms_txt", "repository_pages", "reference_pages"]
exclude_patterns = ["README.md", "extensions", "static"]
highlight_language = "none"
add_module_names = False
maximum_signature_line_length = 80

myst_heading_anchors = 4
nb_execution_mode = "off"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # by default from another host

html_theme = "sphinx_book_theme"
html_title = "txjax"
html_sourcelink_suffix = ""
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["search_in_files.js"]
html_favicon = "static/icon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options = {"show_toc_level": 2, "use_download_button": False, "use_fullscreen_button": False}

llms_txt_title = "txjax"
llms_txt_summary = "Transformers of every family in JAX and Flax, with one trainer"
llms_txt_uri_template = "{docname}{suffix}"  # each page as Markdown beside its HTML
llms_txt_exclude = ["files/configs/*", "files/tests/*"]
