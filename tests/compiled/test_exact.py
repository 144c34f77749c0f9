"""Conditions under which a kernel may replace a module or formula."""

from torch import nn

from regard.compiled.exact import are_unchanged


def nested() -> nn.Module:
    """Return a module with grandchildren, a child with two names, and a child that is None."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Sequential(nn.Tanh()), nn.ReLU()))
    model.append(model[0])
    model.register_module("nothing", None)
    return model


def test_hooks_and_replaced_forwards_are_found_in_all_submodules():
    assert are_unchanged(None)
    assert are_unchanged(nested())
    for number in range(len(list(nested().modules()))):
        hooked, replaced = nested(), nested()
        list(hooked.modules())[number].register_forward_pre_hook(lambda *_: None)
        list(replaced.modules())[number].forward = lambda x: x
        assert not are_unchanged(hooked)
        assert not are_unchanged(replaced)


def test_a_module_may_contain_itself():
    model = nested()
    model[1].owner = model
    assert are_unchanged(model)
