"""The attention over selected blocks and the head, as formulas.py has the others."""
import numpy as np
from formulas import PLAIN


# ---------------------------------------------------------------- nsa_selected_attention

def batches(i):
    q_ends, k_ends = i.get("actualSeqQLenOptional"), i.get("actualSeqKvLenOptional")
    q_ends = q_ends or [i["query"].shape[0]]
    k_ends = k_ends or [i["key"].shape[0]]
    return list(zip([0] + q_ends[:-1], q_ends, [0] + k_ends[:-1], k_ends))


def selected(i, row, head, mistake, causal):
    """The keys of a row, in the order of its list."""
    size, count = i["selectedBlockSize"], i["selectedBlockCount"]
    for q0, q1, k0, k1 in batches(i):
        if q0 <= row < q1:
            break
    if mistake == "batches ignored":
        k0, k1, q0 = 0, i["key"].shape[0], 0
    keys = []
    for c in range(count):
        block = int(i["topkIndices"][row, head, c])
        if mistake == "next block":
            block += 1
        if mistake == "last block of the list missing" and c == count - 1:
            continue
        for r in list(range(size)) * (2 if mistake == "first block of the list twice" and c == 0 else 1):
            if mistake == "last 8 keys of a block missing" and r >= size - 8:
                continue
            j = block * size + r
            if j < 0 or j >= k1 - k0:
                continue
            s = row - q0
            limit = s - 1 if mistake == "j < s" else s + 1 if mistake == "j <= s + 1" else s
            if causal and mistake != "causal ignored" and j > limit:
                continue
            keys.append(k0 + j)
    return keys


def attention(i, mistake="", k=PLAIN):
    q, key, value = i["query"], i["key"], i["value"]
    t1, n1, _ = q.shape
    n2, dv = key.shape[1], value.shape[2]
    group, scale = n1 // n2, i["scaleValue"]
    if mistake == "scale missing":
        scale = 1
    elif mistake == "scale 1/D":
        scale = scale * scale
    elif mistake == "scale times 1.2":
        scale = scale * 1.2
    causal = i["sparseMode"] == 2 and "attenMaskOptional" in i
    out, top, total = np.zeros((t1, n1, dv)), np.zeros((t1, n1, 8)), np.zeros((t1, n1, 8))
    depth = q.shape[2] - (16 if mistake == "last 16 of D missing" else 0)
    for t in range(t1):
        for h in range(n1):
            kh = h % n2 if mistake == "key head h % N2" else h // group
            js = selected(i, t, kh, mistake, causal)
            if not js:
                continue
            s = scale * k.v(k.dot(q[t, h:h + 1, :depth], key[js, kh, :depth].T)[0])
            m = s.max()
            e = k.v(np.exp(k.v(s - m)))
            z = k.add(e, -1)
            p = e / z
            if mistake == "not divided":
                p = e
            elif mistake == "divided by the number of keys":
                p = e / len(js)
            elif mistake == "last key missing in P*v":
                p = np.append(p[:-1], 0)
            vh = (kh + 1) % n2 if mistake == "value of the next head" else kh
            out[t, h] = k.dot(k.v(p)[None], value[js, vh])[0]
            top[t, h], total[t, h] = m, z
    if mistake == "heads exchanged":
        out = out[:, ::-1].copy()
    elif mistake == "one row stale":
        out[7] = out[6]
    return {"attentionOut": out, "softmaxMaxOut": top, "softmaxSumOut": total}


ATTENTION = ["first block of the list twice", "scale missing", "scale 1/D", "scale times 1.2", "causal ignored", "j < s", "j <= s + 1", "batches ignored", "next block",
             "last block of the list missing", "last 8 keys of a block missing", "last 16 of D missing", "key head h % N2",
             "not divided", "divided by the number of keys", "last key missing in P*v", "value of the next head",
             "heads exchanged", "one row stale"]


def attention_grad(i, mistake="", k=PLAIN):
    q, key, value, grad = i["query"], i["key"], i["value"], i["attentionOutGrad"]
    t1, n1, d = q.shape
    t2, n2, dv = value.shape
    group, scale = n1 // n2, i["scaleValue"]
    inner = outer = scale
    if mistake == "inner scale missing":
        inner = 1
    elif mistake == "outer scale missing":
        outer = 1
    elif mistake == "scale times 1.2":
        inner = outer = scale * 1.2
    dq, dk, dv_ = np.zeros(q.shape), np.zeros(key.shape), np.zeros(value.shape)
    for t in range(t1):
        for h in range(n1):
            kh = h // group
            js = selected(i, t, kh, mistake, i["sparseMode"] == 2)
            if not js or i["softmaxSum"][t, h, 0] == 0:
                continue
            depth = d - (16 if mistake == "last 16 of D missing" else 0)
            width = dv - (16 if mistake == "last 16 of Dv missing" else 0)
            s = inner * k.v(k.dot(q[t, h:h + 1, :depth], key[js, kh, :depth].T)[0])
            top = 0 if mistake == "max missing" else i["softmaxMax"][t, h, 0]
            p = k.v(k.v(np.exp(k.v(s - top))) / i["softmaxSum"][t, h, 0])
            if mistake == "not divided":
                p = p * i["softmaxSum"][t, h, 0]
            dp = k.v(k.dot(grad[t, h:h + 1, :width], value[js, kh, :width].T)[0])
            delta = k.v(k.add(grad[t, h] * i["attentionOut"][t, h], -1))
            if mistake == "delta missing":
                delta = 0
            elif mistake == "delta added":
                delta = -delta
            elif mistake == "delta of the first head":
                delta = (grad[t, 0] * i["attentionOut"][t, 0]).sum()
            ds = k.v(p * (dp - delta))
            if mistake == "P missing in dS":
                ds = dp - delta
            dq[t, h] = k.dot((outer * ds)[None], key[js, kh])[0]
            if mistake == "last 16 rows missing in dK" and t >= t1 - 16:
                continue
            if mistake == "one head of the group in dK and dV" and h % group:
                continue
            for n, j in enumerate(js):
                dk[j, kh] = k.v(dk[j, kh] + outer * ds[n] * q[t, h]) if k.sums else dk[j, kh] + outer * ds[n] * q[t, h]
                dv_[j, kh] += (dp[n] if mistake == "dP for P in dV" else p[n]) * grad[t, h]
    if mistake == "dK and dV exchanged" and dk.shape == dv_.shape:
        dk, dv_ = dv_, dk
    elif mistake == "dK negated":
        dk = -dk
    elif mistake == "dK of the first 16 keys not added up":
        dk[:16] /= 3
    return {"dqOut": dq, "dkOut": dk, "dvOut": dv_}


ATTENTION_GRAD = ["inner scale missing", "outer scale missing", "scale times 1.2", "max missing", "not divided", "delta missing", "delta added",
                  "delta of the first head", "P missing in dS", "causal ignored", "j < s", "j <= s + 1", "batches ignored",
                  "next block", "last block of the list missing", "first block of the list twice",
                  "last 8 keys of a block missing", "last 16 of D missing", "last 16 of Dv missing", "last 16 rows missing in dK", "one head of the group in dK and dV",
                  "dP for P in dV", "dK and dV exchanged", "dK negated", "dK of the first 16 keys not added up"]


# ---------------------------------------------------------------- fused_linear_cross_entropy

def packed(bits):
    return np.packbits(bits.astype(np.uint8), bitorder="little")


def online_max_sum(i, mistake="", k=PLAIN):
    x, w, target = i["input"], i["weight"], i["target"]
    start, end = i["vocabStartIndex"], i["vocabEndIndex"]
    h = x.shape[1]
    if mistake == "last 16 of H missing":
        h -= 16
    logits = k.v(k.dot(x[:, :h], w[:, :h].T))
    words = logits.shape[1]
    seen = logits[:, :words - 16] if mistake == "last 16 of the vocabulary missing" else logits
    if mistake == "block of 64 of the vocabulary missing":
        seen = np.delete(logits, slice(64, 128), axis=1)
    top = seen.max(1)
    terms = k.v(np.exp(k.v(seen - top[:, None])))
    seen_in_sum = terms.copy()
    if mistake == "block of 64 missing in the sum alone":
        seen_in_sum[:, 128:192] = 0
    elif mistake == "every 16th missing in the sum alone":
        seen_in_sum[:, 15::16] = 0
    total = k.add(seen_in_sum, 1)
    if mistake == "max of every 64 not corrected":
        total = sum(np.exp(seen[:, b:b + 64] - seen[:, b:b + 64].max(1)[:, None]).sum(1) for b in range(0, words, 64))
    elif mistake == "sum without the max":
        total = np.exp(seen).sum(1)
    elif mistake == "16 words twice":
        total = total + terms[:, :16].sum(1)
    elif mistake == "0.1 added to the sum":
        total = total + 0.1
    masked = (target < start) | (target >= end)
    if mistake == "end inclusive":
        masked = (target < start) | (target > end)
    elif mistake == "targets not masked":
        masked = np.zeros_like(masked)
    elif mistake == "mask inverted":
        masked = ~masked
    local = np.where(masked, 0, target - (0 if mistake == "start not subtracted" else start))
    inside = ~masked & (local >= 0) & (local < words)
    picked = logits[np.arange(len(target)), np.clip(local, 0, words - 1)]
    predicted = np.where(inside, picked - top, 0)
    if mistake == "predicted without the max":
        predicted = np.where(inside, picked, 0)
    elif mistake == "predicted of the next word":
        predicted = np.where(inside, logits[np.arange(len(target)), np.clip(local + 1, 0, words - 1)] - top, 0)
    elif mistake == "predicted of masked ones too":
        predicted = picked - top
    bits = packed(masked)
    if mistake == "bits in reverse order":
        bits = np.packbits(masked.astype(np.uint8))
    if mistake == "max of the row before":
        top = np.roll(top, 1)
    return {"logitsMaxLocalOut": top, "sumExpLogitsLocalOut": total, "predictedLogitsLocalOut": predicted,
            "targetMaskOut": bits, "maskedTargetOut": local}


ONLINE_MAX_SUM = ["last 16 of H missing", "last 16 of the vocabulary missing", "block of 64 of the vocabulary missing",
                  "block of 64 missing in the sum alone", "max of every 64 not corrected", "sum without the max", "16 words twice",
                  "every 16th missing in the sum alone", "0.1 added to the sum", "end inclusive",
                  "targets not masked", "mask inverted", "start not subtracted", "predicted without the max",
                  "predicted of the next word", "predicted of masked ones too", "bits in reverse order",
                  "max of the row before"]


def loss(i, mistake="", k=PLAIN):
    top, total, predicted = i["logitsMax"], i["sumExpLogits"], i["predictedLogits"]
    logits = i["vocabParallelLogitsOptional"]
    value = np.log(total) - predicted
    if mistake == "log missing":
        value = total - predicted
    elif mistake == "predicted added":
        value = np.log(total) + predicted
    elif mistake == "log2 for log":
        value = np.log2(total) - predicted
    elif mistake == "max added":
        value = np.log(total) + top - predicted
    elif mistake == "sum missing":
        value = -predicted
    elif mistake == "loss of the row before":
        value = np.roll(value, 1)
    elif mistake == "predicted missing":
        value = np.log(total)
    p = np.exp(logits - top[:, None]) / total[:, None]
    if mistake == "softmax without the max":
        p = np.exp(logits) / total[:, None]
    elif mistake == "softmax not divided":
        p = np.exp(logits - top[:, None])
    elif mistake == "softmax of another row's sum":
        p = np.exp(logits - top[:, None]) / np.roll(total, 1)[:, None]
    elif mistake == "last 5 words missing":
        p[:, -5:] = 0
    elif mistake == "softmax shifted":
        p = np.roll(p, 1, 1)
    elif mistake == "log softmax":
        p = logits - top[:, None] - np.log(total)[:, None]
    return {"lossOut": value, "softMaxOutOptional": p}


LOSS = ["log missing", "predicted added", "log2 for log", "max added", "sum missing", "loss of the row before",
        "predicted missing", "softmax without the max", "softmax not divided", "softmax of another row's sum",
        "last 5 words missing", "softmax shifted", "log softmax"]


def loss_grad(i, mistake="", k=PLAIN):
    x, w, grad = i["input"], i["weight"], i["grad"]
    tokens = len(grad)
    order = "big" if mistake == "bits in reverse order" else "little"
    masked = np.unpackbits(i["targetMask"].astype(np.uint8), bitorder=order)[:tokens].astype(bool)
    if mistake == "targetMask ignored":
        masked[:] = False
    elif mistake == "targetMask inverted":
        masked = ~masked
    target = i["maskedTarget"].astype(np.int64)
    if mistake == "target one on":
        target = target + 1
    h = x.shape[1] - (16 if mistake == "last 16 of H missing" else 0)
    logits = k.v(k.dot(x[:, :h], w[:, :h].T))
    top = 0 if mistake == "max missing" else i["logitsMaxOptional"][:, None]
    total = 1 if mistake == "not divided" else i["sumExpLogitsOptional"][:, None]
    g = k.v(np.exp(k.v(logits - top))) / total
    if mistake == "softmax missing":
        g = np.zeros_like(g)
    hit = np.flatnonzero(~masked & (target < g.shape[1]))
    if mistake != "-1 missing":
        g[hit, target[hit]] -= -1 if mistake == "+1 for -1" else 0.9 if mistake == "label smoothing" else 1
    if mistake != "grad missing":
        g = g * (grad * grad if mistake == "grad twice" else np.roll(grad, 1) if mistake == "grad of the row before" else grad)[:, None]
    if mistake == "mean over the tokens":
        g = g / tokens
    g = k.v(g)
    gi, gw = g.copy(), g.copy()
    for size in (16, 64):
        if mistake == f"last {size} of the vocabulary missing":
            gi[:, -size:] = 0
    if mistake == "block of 32 of the vocabulary missing":
        gi[:, 64:96] = 0
    elif mistake == "block of 16 of the vocabulary twice":
        gi[:, 32:48] *= 2
    elif mistake == "last 16 tokens missing":
        gw[-16:] = 0
    elif mistake == "8 tokens twice":
        gw[24:32] *= 2
    dx, dw = k.dot(gi, w), k.dot(gw.T, x)
    if mistake == "weightGrad negated":
        dw = -dw
    elif mistake == "rows of weightGrad shifted":
        dw = np.roll(dw, 1, 0)
    elif mistake == "weightGrad of the last chunk alone":
        dw = gw[-32:].T @ x[-32:]
    return {"inputGradOut": dx, "weightGradOut": dw}


LOSS_GRAD = ["bits in reverse order", "targetMask ignored", "targetMask inverted", "target one on", "last 16 of H missing",
             "max missing", "not divided", "softmax missing", "-1 missing", "+1 for -1", "label smoothing", "grad missing",
             "grad twice", "grad of the row before", "mean over the tokens", "last 16 of the vocabulary missing",
             "last 64 of the vocabulary missing", "block of 32 of the vocabulary missing",
             "block of 16 of the vocabulary twice", "last 16 tokens missing", "8 tokens twice",
             "weightGrad negated", "rows of weightGrad shifted", "weightGrad of the last chunk alone"]
