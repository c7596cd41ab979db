"""Configuration of the documentation build; run it with `make docs`."""

import inspect
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "jumbot"
author = "the jumbot developers"
copyright = "2026, the jumbot developers"
release = version = installed_version("jumbot")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "commands",
    "mathml",
]
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
default_role = "code"  # `x` in a docstring is code, as in Markdown

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False
# "array of shape (n,)" is prose, no reference to one of the things called shape
suppress_warnings = ["ref.python"]
napoleon_use_ivar = True  # attributes in a docstring do not repeat the members below it

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "ExampleTitleSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = f"jumbot {release}"
html_static_path = ["_static"]


def keep_property_text(app, what, name, obj, options, lines):
    """Undo napoleon there, which takes "text: more" for a type, and escape |C|."""
    if what == "property":
        lines[:] = [*inspect.getdoc(obj).replace("|", r"\|").splitlines(), ""]


def setup(app):
    after_napoleon = 600
    app.connect("autodoc-process-docstring", keep_property_text, after_napoleon)
