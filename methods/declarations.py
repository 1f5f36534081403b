"""Types of parameters that methods share."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Interval, Unit

Natural = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]
Several = Annotated[int, Ge(2)]
Documents = Annotated[int, Ge(1), Unit("documents")]
Instances = Annotated[int, Ge(1), Unit("instances")]
Labels = Annotated[int, Ge(1), Unit("labels")]
Steps = Annotated[int, Ge(0), Unit("steps")]
Tokens = Annotated[int, Ge(3), Unit("tokens")]
Words = Annotated[int, Ge(1), Unit("words")]
AboveZero = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Interval(ge=0, le=1)]
ShareBelowOne = Annotated[float, Interval(ge=0, lt=1)]
Probability = Annotated[float, Interval(gt=0, lt=1)]
PrecisionName = Literal["auto", "bf16", "fp16", "fp32"]
Stored = Literal["float32", "float16"]
