"""Network topology per Slurm partition on SageMaker HyperPod: built from facts, published safely, explained."""

__version__ = "0.1.0"
