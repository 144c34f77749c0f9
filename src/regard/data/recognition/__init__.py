"""Recognition of tables: their encoding and format, and what each column is for."""
