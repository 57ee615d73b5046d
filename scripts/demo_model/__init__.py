"""Parts of scripts/train-demo-model: the small world, its texts, the tokenizer and the model."""
