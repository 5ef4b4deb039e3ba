//! The site in Chromium. If it is not installed, the tests say so and skip; if `EMMY_REQUIRE_ENGINES` is 1,
//! they fail.

use super::*;
use std::io::Write;
use std::process::Command;

/// The variable that makes a missing browser an error.
const REQUIRED: &str = "EMMY_REQUIRE_ENGINES";

/// The widths of a phone and of a desk.
const WIDTHS: [u32; 2] = [400, 1400];

fn is_installed() -> bool {
    if Command::new("chromium")
        .arg("--version")
        .output()
        .is_ok_and(|run| run.status.success())
    {
        return true;
    }
    let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
    assert!(!required, "chromium is not installed, and {REQUIRED} is 1");
    // Not through `print!`, whose output a passing test does not show.
    let _ = writeln!(std::io::stderr(), "skipped: chromium is not installed");
    false
}

/// Chromium at an address in a folder; what it prints.
fn chromium(folder: &Path, address: &str, options: &[&str]) -> String {
    let profile = TempDir::new().unwrap();
    let run = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-dev-shm-usage",
            // Nothing is asked of the network.
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        // Pages from files may look into each other.
        .arg("--allow-file-access-from-files")
        // A clock that waits for what is loading.
        .arg("--virtual-time-budget=1000000")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(options)
        .arg(format!("file://{}/{address}", folder.display()))
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// A page that loads each page in a frame, and prints the widths at which it is wider than the frame.
const MEASURE: &str = r#"<!DOCTYPE html><meta charset="utf-8"><pre id="report">not ready</pre><script>
const load = (frame, page) => new Promise((done) => {
  frame.onload = done;
  frame.src = page;
});
const queue = PAGES;
let report = "";
const work = async () => {
  const frame = document.createElement("iframe");
  frame.style.cssText = "height:900px;border:0;visibility:hidden";
  document.body.append(frame);
  for (let page; (page = queue.pop());) {
    await load(frame, page);
    const root = frame.contentDocument.documentElement;
    // What is folded overflows when it is opened.
    root.querySelectorAll("details").forEach((details) => { details.open = true; });
    for (const width of WIDTHS) {
      frame.style.width = width + "px";
      const [inner, outer] = [root.scrollWidth, root.clientWidth];
      if (inner > outer || outer !== width) report += `${page}: ${inner} in ${outer} of ${width}\n`;
    }
  }
};
Promise.all(Array.from({ length: 8 }, work)).then(() => {
  document.getElementById("report").textContent = report + "end";
});
</script>"#;

/// What the page that measures prints for these addresses. It is written into `folder` under `name`.
fn widths(folder: &Path, name: &str, addresses: &[String]) -> String {
    let script = MEASURE.replace("PAGES", &format!("{addresses:?}"));
    let script = script.replace("WIDTHS", &format!("{WIDTHS:?}"));
    std::fs::write(folder.join(name), script).unwrap();
    let dom = chromium(folder, name, &["--dump-dom"]);
    let (_, report) = dom.split_once("<pre id=\"report\">").unwrap();
    report.split_once("</pre>").unwrap().0.to_owned()
}

#[test]
fn no_page_is_wider_than_the_window() {
    if !is_installed() {
        return;
    }
    // Beside the site, so that no other test reads it as a page.
    let beside = TempDir::new().unwrap();
    // Every chapter, every file of the reading path, and every eighth of the other files, whose pages are
    // alike.
    let is_listing = |page: &String| {
        let text = std::fs::read_to_string(SITE.path().join(page)).unwrap();
        page.ends_with(".rs.html") && !text.contains("class=\"prose\"")
    };
    let (listings, others): (Vec<_>, Vec<_>) = pages(SITE.path()).into_iter().partition(is_listing);
    let mut addresses: Vec<String> = (others.iter().chain(listings.iter().step_by(8)))
        .map(|page| format!("file://{}/{page}", SITE.path().display()))
        .collect();
    // What is too wide is found: 700 fit on a desk, and not on a phone.
    let wide =
        "<!DOCTYPE html><body style=\"margin:0\"><details><p style=\"width:700px\">wide</details>";
    std::fs::write(beside.path().join("wide.html"), wide).unwrap();
    addresses.push("wide.html".into());
    // A browser lays out pages on one core.
    let half = addresses.len() / 2;
    let reports = std::thread::scope(|scope| {
        let halves = [
            ("first.html", &addresses[..half]),
            ("second.html", &addresses[half..]),
        ];
        halves
            .map(|(name, part)| scope.spawn(|| widths(beside.path(), name, part)))
            .map(|report| report.join().unwrap())
    });
    assert_eq!(reports, ["end", "wide.html: 700 in 400 of 400\nend"]);
}

/// The results that a page shows for a query: the text of each.
fn search(query: &str) -> Vec<String> {
    let dom = chromium(
        SITE.path(),
        &format!("docs/index.html?q={query}"),
        &["--dump-dom"],
    );
    let (_, results) = dom
        .split_once("<div class=\"results\">")
        .expect("results are shown");
    let (results, _) = results.split_once("</div>").unwrap();
    results
        .split("<a ")
        .skip(1)
        .map(|result| plain(&format!("<a {result}")))
        .collect()
}

#[test]
fn the_search_finds_softmax() {
    if !is_installed() {
        return;
    }
    let found = search("softmax");
    assert!(found.len() > 5, "{found:?}");
    assert!(
        found
            .iter()
            .all(|text| text.to_lowercase().contains("softmax")),
        "{found:?}"
    );
    assert_eq!(search("quaxolotl"), [""; 0]);
}

/// Pictures for whoever wants to look: they are in `target/tmp/site`.
#[test]
fn pictures() {
    if !is_installed() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
    std::fs::create_dir_all(&folder).unwrap();
    let step = std::fs::read_to_string(SITE.path().join("docs/reading.html")).unwrap();
    let step = step
        .split("href=\"../src/")
        .find_map(|rest| rest.split('"').next().filter(|p| p.ends_with(".rs.html")));
    let step = format!("src/{}", step.unwrap());
    for (name, page) in [
        ("landing", "index.html"),
        ("chapter", "docs/engine.html"),
        ("source", &step),
    ] {
        for (scheme, [width, height]) in [
            ("light", [1400, 1000]),
            ("dark", [1400, 1000]),
            ("light", [400, 900]),
            ("dark", [400, 900]),
        ] {
            let picture = folder.join(format!("{name}-{scheme}-{width}.png"));
            let _ = std::fs::remove_file(&picture);
            let size = format!("--window-size={width},{height}");
            let shot = format!("--screenshot={}", picture.display());
            chromium(
                SITE.path(),
                &format!("{page}?theme={scheme}"),
                &[&size, &shot],
            );
            let bytes = std::fs::read(&picture).unwrap();
            // The size in the head of a PNG file.
            assert_eq!(
                bytes[16..20],
                u32::to_be_bytes(width),
                "{}",
                picture.display()
            );
            assert!(bytes.len() > 10_000, "{} is empty", picture.display());
        }
    }
}
