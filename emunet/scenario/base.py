"""Base of every scenario model: unknown, missing and wrong entries, all found at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

from emunet.errors import NO_VALUE, ScenarioError, did_you_mean, one_of, raise_errors
from emunet.scenario.fields import Finding, Findings, Leaf, from_text

M = TypeVar("M", bound="Model")


class Model(BaseModel):
    """A mapping of the scenario with fixed keys.

    Attributes are the keys as written in the file; quantities are integers in base units (bit/s,
    bytes, ps). The key ``class`` is the attribute `klass`. Constructors accept text with units or
    integers in base units, and raise `ScenarioError`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    noun: ClassVar[str] = ""

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise_errors(scenario_errors(findings(error)))

    # As in pydantic's own root model: nested data is validated without a call of this constructor.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls: type[M], obj: Any, **options: Any) -> M:
        """Model from a mapping of Python values; raises `ScenarioError`."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise_errors(scenario_errors(findings(error)))
            raise

    def replace(self: M, **changes: Any) -> M:
        """A checked copy with other values."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**values, **changes})

    def cross_checks(self) -> Iterable[Finding]:
        """Relations between values that hold; each finding has its path from this mapping."""
        return ()

    @classmethod
    def file_keys(cls) -> dict[str, str]:
        """Attribute name of each key of the file."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}

    @classmethod
    def read(cls: type[M], value: Any, info: ValidationInfo, *below: str | int) -> M:
        """Model from a value inside a validator; findings get the path `below`."""
        if isinstance(value, cls):
            return value
        try:
            return cls.__pydantic_validator__.validate_python(value, context=info.context)
        except ValidationError as error:
            raise Findings([f.below(*below) for f in findings(error)]) from None

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, value: Any, handler: Any, info: ValidationInfo) -> Any:
        if isinstance(value, cls):
            return value
        keys = cls.file_keys()
        if not isinstance(value, Mapping):
            raise Findings([Finding(value, "is not a mapping", f"the keys {one_of(keys)}")])
        known, found = cls._known(value, keys, from_text(info))
        try:
            model = handler(known)
        except ValidationError as error:
            raise Findings(found + [cls._explained(f) for f in findings(error)]) from None
        found += model.cross_checks()
        if found:
            raise Findings(found)
        return model

    @classmethod
    def _known(cls, value: Mapping, keys: dict[str, str], text: bool) -> tuple[dict, list[Finding]]:
        """Entries with known keys, and a finding for each other key."""
        known: dict[str, Any] = {}
        found: list[Finding] = []
        attributes = {} if text else {name: key for key, name in keys.items()}
        for key, entry in value.items():
            key = str(key)
            name = attributes.get(key, key)
            if name in known:
                found.append(
                    Finding(entry, f'is given as "{name}" and under its other name', at=(name,))
                )
            elif name in keys:
                known[name] = entry
            else:
                found.append(
                    Finding(
                        NO_VALUE,
                        f"{cls.noun or 'this mapping'} has no such key",
                        one_of(keys, 40),
                        did_you_mean(key, keys),
                        at=(key,),
                    )
                )
        return known, found

    @classmethod
    def _explained(cls, finding: Finding) -> Finding:
        """A missing key, with what could stand there."""
        if finding.value is not NO_VALUE or finding.problem != MISSING or len(finding.at) != 1:
            return finding
        field = cls.model_fields[cls.file_keys()[str(finding.at[0])]]
        leaf = next((m for m in field.metadata if isinstance(m, Leaf)), None)
        allowed = leaf.allowed() if leaf else ""
        return Finding(
            NO_VALUE,
            "is missing",
            allowed,
            f'add "{finding.at[0]}": {field.description}',
            finding.at,
        )


MISSING = "missing"


def findings(error: ValidationError) -> list[Finding]:
    """Problems that pydantic reports, in its order."""
    return list(_findings(error))


def _findings(error: ValidationError) -> Iterator[Finding]:
    for item in error.errors(include_url=False):
        at = tuple(item["loc"])
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, Findings):
            yield from (finding.below(*at) for finding in cause.items)
        elif item["type"] == "missing":
            yield Finding(NO_VALUE, MISSING, at=at)
        else:
            yield Finding(item["input"], f"is not accepted: {item['msg']}", at=at)


def spell_path(at: Iterable[str | int]) -> str:
    """JSON path of keys and indices: ``$.topology.links[3].rate``."""
    text = "$"
    for step in at:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isdecimal() or step.replace("-", "_").isidentifier():
            text += f".{step}"
        else:
            text += f'["{step}"]'
    return text


def scenario_errors(items: Iterable[Finding]) -> list[ScenarioError]:
    """Findings as errors with their path from the root."""
    return [ScenarioError(spell_path(f.at), f.value, f.problem, f.allowed, f.fix) for f in items]
