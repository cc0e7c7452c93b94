"""Floor 5: what people read. Tables, charts and sentences, in English and Chinese, from a Result alone."""
