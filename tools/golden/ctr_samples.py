"""Small networks in the form of HugeCTR's samples DIN, BST, MMoE and NCF."""

import torch
from ctr_case import Case


def networks():
    for cases in [din, bst, mmoe, ncf]:
        yield from cases()


def din():
    """Deep interest network: history and candidate, an attention MLP, Dice."""
    slots, dim = 5, 4
    tables = {"user": (1, dim), "good": (slots, dim), "cate": (slots, dim)}
    case = Case("net_din", dense=0, tables=tables, labels={"label": 1})
    width, history = 2 * dim, slots - 1
    joined = torch.cat([case.x["good"], case.x["cate"]], 2)
    values = [joined[:, :-1].reshape(-1, width), joined[:, -1]]
    case.layer("FusedReshapeConcat", ["good", "cate"], ["items", "item"], values)
    case.scale("item", "item_rows", 1, history)
    case.sub(["item_rows", "items"], "sub")
    case.multiply(["item_rows", "items"], "product")
    case.concat(["item_rows", "items", "sub", "product"], "joined")
    case.fc("joined", "att1", 6)
    case.fc("att1", "att2", 1)
    case.reshape("att2", "scores", history)
    case.softmax("scores", "weights")
    case.scale("weights", "weights_wide", 0, width)
    case.reshape("items", "items_flat", history * width)
    case.multiply(["weights_wide", "items_flat"], "weighted")
    case.reduce("ReduceSum", "weighted", "interest", 1)
    case.reshape("items", "items_steps", width, history)
    case.reduce("ReduceMean", "items_steps", "mean", 1)
    case.reshape("mean", "mean_flat", width)
    case.reshape("user", "user_flat", dim)
    case.concat(["user_flat", "mean_flat", "interest", "item"], "top")
    case.fc("top", "fc1", 10)
    case.dice("fc1", "dice1")
    case.fc("dice1", "fc2", 6)
    case.dice("fc2", "dice2")
    case.fc("dice2", "fc3", 1)
    yield case.giving(case.loss("BinaryCrossEntropyLoss", "fc3", "label"))


def bst():
    """Behaviour sequence transformer: attention over the history, in both of its poolings."""
    slots, dim, hidden = 4, 5, 6
    for pooling in ["mean", "concat"]:
        tables = {"user": (1, 4), "good": (slots, dim), "item_good": (1, dim)}
        tables |= {"cate": (slots, dim), "item_cate": (1, dim)}
        case = Case("net_bst_" + pooling, dense=1, tables=tables, labels={"label": 1})
        case.lengths([4], [2], [1])
        case.mask(["dense", "dense"], "mask", slots, slots)
        case.concat(["cate", "good"], "history", axis=2)
        for top in ["query", "key", "value"]:
            case.fc("history", top, hidden)
        case.attention(["query", "key", "value", "mask"], "attended", 2)
        case.add(["attended", "query"], "shortcut")
        case.norm("shortcut", "normed")
        case.fc("normed", "ffn1", 9)
        case.fc("ffn1", "ffn2", hidden)
        case.add(["ffn2", "normed"], "ffn_shortcut")
        case.norm("ffn_shortcut", "ffn_normed")
        if pooling == "mean":
            case.reduce("ReduceMean", "ffn_normed", "pooled", 1)
            case.reshape("pooled", "sequence", hidden)
        else:
            case.reshape("ffn_normed", "sequence", slots * hidden)
        for table in ["user", "item_good", "item_cate"]:
            case.reshape(table, table + "_flat", tables[table][1])
        case.concat(["sequence", "user_flat", "item_good_flat", "item_cate_flat"], "top")
        case.fc("top", "fc1", 7)
        case.dice("fc1", "dice1")
        case.fc("dice1", "fc2", 1)
        yield case.giving(case.loss("BinaryCrossEntropyLoss", "fc2", "label"))


def mmoe():
    """Two tasks with layers that they share, and some of their own."""
    case = Case("net_mmoe", dense=1, tables={"table": (3, 4)}, labels={"A": 1, "B": 1})
    case.reshape("table", "flat", 12)
    case.fc("flat", "shared1", 12)
    case.relu("shared1", "relu1")
    case.dropout("relu1", "dropout1")
    case.fc("dropout1", "shared2", 16)
    case.relu("shared2", "relu2")
    case.dropout("relu2", "dropout2")
    case.slice("dropout2", ["sliceA", "sliceB"], [(0, 7), (8, 15)])
    outputs = []
    for task in ["A", "B"]:
        case.fc("slice" + task, task + "_fc1", 5)
        case.relu(task + "_fc1", task + "_relu1")
        case.dropout(task + "_relu1", task + "_dropout1")
        case.fc(task + "_dropout1", task + "_out", 1)
        outputs.append(case.loss("BinaryCrossEntropyLoss", task + "_out", task))
    yield case.giving(*outputs)


def ncf():
    """Neural matrix factorisation: an MLP beside a product of factors."""
    case = Case("net_neumf", dense=1, tables={"mixed": (2, 12)}, labels={"label": 1})
    case.reshape("mixed", "flat", 24)
    case.slice("flat", ["mlp", "gmf"], [(0, 15), (16, 24)])
    case.fc("mlp", "fc1", 12)
    case.relu("fc1", "relu1")
    case.dropout("relu1", "dropout1")
    case.fc("dropout1", "fc2", 7)
    case.relu("fc2", "relu2")
    case.dropout("relu2", "dropout2")
    case.slice("gmf", ["user", "item"], [(0, 4), (4, 8)])
    case.multiply(["user", "item"], "factors")
    case.concat(["factors", "dropout2"], "joined")
    case.fc("joined", "out_fc", 1)
    yield case.giving(case.loss("BinaryCrossEntropyLoss", "out_fc", "label"))
