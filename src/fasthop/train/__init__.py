"""Training: the task, the setup that rungs rewrite, batches, the step, the loop and evaluation."""
