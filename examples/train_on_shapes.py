"""Train on the built-in shapes, test on turned ones, use the model: a handful of calls.

python examples/train_on_shapes.py [FOLDER]
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

import vnt

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example")
config = replace(vnt.recipe("shapes"), epochs=1, num_points=32, batch_size=64)
vnt.train(config, folder, watch=lambda moment: print(moment.metrics) if moment.metrics else None)

found = vnt.evaluate(folder, protocols=("I", "SO3"), num_points=32)
for protocol, numbers in found.summary().items():
    print(protocol, f"{numbers['accuracy']:.1%}")

model = vnt.load(folder)
with torch.no_grad():
    print(model(torch.randn(1, 100, 3)).argmax(-1))
