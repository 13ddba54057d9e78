"""Handing a trained model over: as ONNX, as a skops file, as coefficients in JSON. No pickle."""
