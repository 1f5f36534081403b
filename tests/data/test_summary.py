import pytest

from xmcbench.data import load_dataset, statistics


def test_counts_and_means(write_folder):
    facts = statistics(load_dataset(write_folder()))
    assert facts["train"] == 3
    assert facts["labels_per_train_instance"] == 1
    assert facts["labels_per_test_instance"] == 1.5
    assert facts["train_instances_per_label"] == 1
    assert facts["words_per_title"] == pytest.approx((4 - 1 + 2 + 1 + 2 + 1) / 5)
    assert facts["words_per_content"] == pytest.approx((3 + 4 + 3) / 5)
    assert facts["words_per_label"] == 2
    assert facts["labels_without_train_pair"] == 0


def test_labels_nobody_trains_on_are_counted(write_folder):
    rows = [{"uid": "A1", "title": "t", "content": "", "target_ind": [0]}]
    facts = statistics(load_dataset(write_folder(trn=rows)))
    assert facts["labels_without_train_pair"] == 2
    assert facts["test_pairs_of_labels_without_train_pair"] == 3
