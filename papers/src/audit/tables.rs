//! All tables of results of the four papers, and the sizes of the test sets they may have.

use super::glue;
use super::printed::{Printed, Spread, Table};
use crate::support::paper::Number;
use crate::{balance, deep_attention, oversmoothing, self_attention};

/// The names of the papers: those of the programs that repeat them.
pub const PAPERS: [&str; 4] = [
    "balance",
    "deep_attention",
    "self_attention",
    "oversmoothing",
];

/// The number of a text, if it has one.
fn cell(set: &str, row: &str, column: &str, text: &str) -> Option<Printed> {
    Some(Printed {
        set: set.to_owned(),
        row: row.to_owned(),
        column: column.to_owned(),
        number: Number::parse(text)?,
    })
}

/// The tables of all papers.
pub fn all() -> Vec<Table> {
    [
        of_balance(),
        of_deep_attention(),
        of_self_attention(),
        of_contra_norm(),
    ]
    .concat()
}

/// "Are GATs Out of Balance?": "mean accuracy ± 95 % CI over five runs"; Table 6 has no spread.
fn of_balance() -> Vec<Table> {
    use balance::numbers;
    let schemes = ["Xav", "Bal_X", "Bal_O"];
    let depths = ["L=2", "L=5", "L=10", "L=20", "L=40"];
    let table = |number: u32, cells: Vec<Printed>| Table {
        paper: "balance",
        number,
        runs: Some(5),
        spread: Spread::Interval,
        percent: true,
        cells,
    };
    let mut second = Vec::new();
    // The numbers of Cora in this list are those of other tables.
    for (set, rows) in numbers::TABLE_2.iter().filter(|(set, _)| *set != "cora") {
        for (row, numbers) in schemes.iter().zip(rows) {
            let of_row = depths.iter().zip(numbers);
            second.extend(of_row.filter_map(|(column, text)| cell(set, row, column, text)));
        }
    }
    let variations = |list: &[numbers::Variation]| -> Vec<Printed> {
        let of = |(variation, layers, numbers): &numbers::Variation| -> Vec<Printed> {
            let column = match *variation {
                "none" => format!("L={layers}"),
                other => format!("L={layers}, {other}"),
            };
            let of_row = schemes.iter().zip(numbers);
            of_row
                .filter_map(|(row, text)| cell("cora", row, &column, text))
                .collect()
        };
        list.iter().flat_map(of).collect()
    };
    let fifth = numbers::TABLE_5.iter().flat_map(|(set, numbers)| {
        let of_row = schemes.iter().zip(numbers);
        of_row.filter_map(|(row, text)| cell(set, row, "as Veličković et al.", text))
    });
    let by_depth = |name: &'static str, list: &[(&'static str, [&'static str; 5])]| {
        let cells = list.iter().flat_map(|(set, numbers)| {
            let of_row = depths.iter().zip(numbers);
            of_row.filter_map(|(column, text)| cell(set, name, column, text))
        });
        cells.collect::<Vec<_>>()
    };
    let sixth = [
        by_depth("Bal_O", &numbers::TABLE_6),
        by_depth("LipschitzNorm", &numbers::TABLE_6_LIPSCHITZ),
    ];
    let of_gcn = ["Xavier", "Xavier+Bal", "LLortho", "LLortho+Bal"].map(|row| format!("GCN {row}"));
    let seventh = numbers::TABLE_7.iter().flat_map(|(set, layers, numbers)| {
        let of_row = of_gcn.iter().zip(numbers);
        of_row.filter_map(move |(row, text)| cell(set, row, &format!("L={layers}"), text))
    });
    vec![
        table(2, second),
        table(3, variations(&numbers::TABLE_3)),
        table(4, variations(&numbers::TABLE_4)),
        table(5, fifth.collect()),
        table(6, sixth.concat()),
        table(7, seventh.collect()),
    ]
}

/// "Lipschitz Normalization", which does not say how many runs a mean has.
fn of_deep_attention() -> Vec<Table> {
    use deep_attention::numbers;
    let table = |number: u32, cells: Vec<Printed>| Table {
        paper: "deep_attention",
        number,
        runs: None,
        spread: Spread::Deviation,
        percent: true,
        cells,
    };
    let name = |(model, norm): numbers::Variant| format!("{}{}", model.printed(), norm.printed());
    let missing = |percent: f64| format!("{percent} % missing");
    let first = numbers::TABLE_1.iter().flat_map(|(variant, texts)| {
        let columns = numbers::TABLE_1_COLUMNS.iter().zip(texts);
        columns.filter_map(|((set, percent), text)| {
            cell(set, &name(*variant), &missing(*percent), text)
        })
    });
    let second = numbers::TABLE_2.iter().flat_map(|(variant, texts)| {
        let columns = ["cora", "pubmed"].iter().zip(texts);
        columns.filter_map(|(set, text)| cell(set, &name(*variant), &missing(100.0), text))
    });
    let third = numbers::TABLE_3
        .iter()
        .flat_map(|((norm, residual), texts)| {
            let residual = if *residual { "-res" } else { "" };
            let row = format!("GAT{}{residual}", norm.printed());
            let columns = numbers::TABLE_3_COLUMNS.iter().zip(texts);
            columns.filter_map(move |((set, layers), text)| {
                cell(set, &row, &format!("L={layers}"), text)
            })
        });
    vec![
        table(1, first.collect()),
        table(2, second.collect()),
        table(3, third.collect()),
    ]
}

/// "The Lipschitz Constant of Self-Attention": losses, without a spread.
fn of_self_attention() -> Vec<Table> {
    use self_attention::numbers::TABLE_1;
    let rows = ["dot product", "L2, W_Q = W_K", "contractive L2"];
    let cells = TABLE_1.iter().flat_map(|(layers, texts)| {
        let of_depth = rows.iter().zip(texts);
        of_depth.filter_map(move |(row, text)| cell("ptb", row, &format!("L={layers}"), text))
    });
    vec![Table {
        paper: "self_attention",
        number: 1,
        runs: None,
        spread: Spread::Deviation,
        percent: false,
        cells: cells.collect(),
    }]
}

/// "ContraNorm": Table 3 is of five runs; the tables on GLUE and ImageNet do not say.
fn of_contra_norm() -> Vec<Table> {
    use oversmoothing::numbers;
    let table = |number: u32, runs: Option<u32>, cells: Vec<Printed>| Table {
        paper: "oversmoothing",
        number,
        runs,
        spread: Spread::Deviation,
        percent: true,
        cells,
    };
    let mut tables: Vec<Table> = glue::TABLES
        .iter()
        .map(|(number, rows)| {
            let cells = rows.iter().flat_map(|(row, texts)| {
                let columns = glue::TASKS.iter().zip(texts);
                columns.filter_map(|(task, text)| cell(task, row, task, text))
            });
            table(*number, None, cells.collect())
        })
        .collect();
    let images = glue::IMAGES.iter().flat_map(|(set, row, texts)| {
        let columns = ["L=12", "L=16", "L=24"].iter().zip(texts);
        columns.filter_map(|(column, text)| cell(set, row, column, text))
    });
    let graphs = numbers::TABLE_3.iter().flat_map(|(set, rows)| {
        rows.iter().flat_map(|(method, texts)| {
            let columns = numbers::LAYERS.iter().zip(texts);
            columns.filter_map(|(layers, text)| {
                cell(set, method.printed(), &format!("L={layers}"), text)
            })
        })
    });
    tables.push(table(2, None, images.collect()));
    tables.push(table(3, Some(5), graphs.collect()));
    tables.sort_by_key(|table| table.number);
    tables
}

/// The sizes of test sets that a set is known to have, and what they are.
const SIZES: [(&str, &[(u32, &str)]); 11] = [
    (
        "cora",
        &[
            (1000, "public"),
            (2068, "all but training and validation"),
            (542, "a fifth"),
        ],
    ),
    (
        "citeseer",
        &[
            (1000, "public"),
            (988, "public without isolated nodes"),
            (1015, "public, with the nodes that are not in the graph"),
            (2707, "all but training and validation"),
            (665, "a fifth"),
        ],
    ),
    ("pubmed", &[(1000, "public")]),
    (
        "chameleon",
        &[(456, "a published split"), (455, "a fifth, rounded down")],
    ),
    (
        "squirrel",
        &[(1041, "a published split"), (1040, "a fifth, rounded down")],
    ),
    ("actor", &[(1520, "a published split")]),
    ("cornell", &[(37, "a published split"), (183, "all nodes")]),
    ("texas", &[(37, "a published split"), (183, "all nodes")]),
    (
        "wisconsin",
        &[(51, "a published split"), (251, "all nodes")],
    ),
    ("ImageNet100", &[(5000, "validation")]),
    ("ImageNet1k", &[(50_000, "validation")]),
];

/// The known sizes of the test set of a set, with a name of each.
pub fn sizes(set: &str) -> Vec<(u32, &'static str)> {
    let of_graph = SIZES.iter().find(|(name, _)| *name == set);
    let of_task = glue::EXAMPLES.iter().find(|(name, _)| *name == set);
    match (of_graph, of_task) {
        (Some((_, sizes)), _) => sizes.to_vec(),
        (None, Some((_, examples))) => vec![(*examples, "validation")],
        (None, None) => Vec::new(),
    }
}
