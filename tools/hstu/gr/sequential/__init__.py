"""generative-recommenders' sequential model: items alone, by position and time."""
