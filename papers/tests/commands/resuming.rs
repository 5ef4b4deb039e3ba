//! `cora` continues a saved run.

use super::*;

#[test]
fn a_run_saved_and_resumed_ends_where_an_unbroken_one_does() {
    let folder = TempDir::new().unwrap();
    for optimizer in ["adam", "sgd", "adamw", "muon"] {
        let start = |more: &[&str]| {
            let args = ["--dataset", "karate", "--optimizer", optimizer];
            cora(
                &folder,
                &[&args[..], &["--seed", "3", "--json"], more].concat(),
            )
        };
        let run = |more: &[&str]| untimed(&succeeded(&start(more)).0);
        let whole = run(&["--epochs", "12"]);
        assert!(whole[0]["max_delta"].as_f64().unwrap() > 0.0);
        run(&["--epochs", "5", "--save", "half.ckpt"]);
        let resumed = run(&[
            "--epochs",
            "12",
            "--resume",
            "half.ckpt",
            "--save",
            "half.ckpt",
        ]);
        assert_eq!(resumed, whole, "{optimizer}");
        let again = run(&["--epochs", "12", "--resume", "half.ckpt"]);
        assert_eq!(again, whole, "{optimizer}");
        for (option, value, reason) in [
            ("--hidden", "5", "another run: description"),
            ("--lr", "0.5", "learning rate 0.5"),
            ("--init", "bal-x", "initialisation bal-x"),
        ] {
            refused(&start(&["--resume", "half.ckpt", option, value]), reason);
        }
    }
}

/// A graph of the same name and size is another one.
#[test]
fn a_run_does_not_go_on_with_other_data() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("edges.csv", "f,t\na,b\nb,c\nc,d\n");
    write("other.csv", "f,t\na,b\nb,c\nb,d\n");
    let nodes = "id,x,label,split\na,1,0,train\nb,2,1,train\nc,3,0,val\nd,4,1,test\n";
    write("nodes.csv", nodes);
    write("changed.csv", &nodes.replace("c,3", "c,5"));
    let start = |edges: &str, nodes: &str, more: &[&str]| {
        let args = ["--edges", edges, "--nodes", nodes, "--model", "gcn"];
        cora(&folder, &[&args[..], more].concat())
    };
    let saved = ["--epochs", "2", "--save", "half.ckpt"];
    succeeded(&start("edges.csv", "nodes.csv", &saved));
    let on = ["--epochs", "4", "--resume", "half.ckpt"];
    let directed = [&on[..], &["--directed"]].concat();
    std::fs::rename(
        folder.path().join("changed.csv"),
        folder.path().join("nodes.csv"),
    )
    .unwrap();
    for refusal in [
        start("other.csv", "nodes.csv", &on),
        start("edges.csv", "nodes.csv", &directed),
        start("edges.csv", "nodes.csv", &on),
    ] {
        refused(&refusal, "another run: description");
    }
    write("nodes.csv", nodes);
    succeeded(&start("edges.csv", "nodes.csv", &on));
}
