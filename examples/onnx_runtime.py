"""Classify a cloud with ONNX Runtime and NumPy alone: no torch, no vnt.

vnt export modelnet40 -o modelnet40.onnx
python examples/onnx_runtime.py modelnet40.onnx cloud.xyz
"""

import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
about = json.loads(session.get_modelmeta().custom_metadata_map["vnt"])
points = np.loadtxt(sys.argv[2])[:, :3]  # float64: of a georeferenced scan float32 keeps half a metre
points -= points.mean(0)
points *= np.sqrt(np.prod(about["radius"])) / np.sqrt(np.square(points).sum(1).mean())  # to a size that it knows
logits = session.run(None, {"points": points[None].astype(np.float32)})[0][0]
share = np.exp(logits - logits.max())
for best in logits.argsort()[::-1][:3]:
    print(f"{about['class_names'][best]:12} {share[best] / share.sum():.1%}")
