"""The page: one HTML file that shows a Result with charts, and loads nothing from anywhere."""
