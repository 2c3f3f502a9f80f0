"""Training of generative recommenders of the HSTU kind, in plain PyTorch.

Models of recsys-examples that rank and retrieve, and the sequential model of
generative-recommenders, with the parameter names and checkpoint files of the originals. Nothing
here is needed to serve a model.
"""
